"""The golden result: what the query means, computed by Spark from the same prepared input.

One Spark application serves every query form. It uses Spark SQL and DataFrames only, never a
cross product and never a window function without a partition, so that the same job runs on a
laptop and on a cluster.
"""

from .job import GoldenResult, run_golden

__all__ = ["GoldenResult", "run_golden"]
