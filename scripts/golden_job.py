"""The golden job for spark-submit: ``spark-submit --master URL golden_job.py QUERY INPUTS OUT``.

QUERY is a query file, INPUTS a prepared input folder, and OUT the result folder; the folders may be
on any file system that the driver and the executors share. Prints the result as one JSON object.
"""

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from pyspark.sql import SparkSession

from joinery_gen.golden import run_golden
from joinery_gen.parse import parse_file
from joinery_gen.query import JoineryError


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Compute the golden result of a query.")
    parser.add_argument("query", type=Path, help="query file (.cql)")
    parser.add_argument("inputs", help="prepared input folder")
    parser.add_argument("out", help="result folder")
    given = parser.parse_args(arguments)
    try:
        query = parse_file(given.query)
        spark = SparkSession.builder.appName(f"joinery golden {query.name}").getOrCreate()
        result = run_golden(query, given.inputs, given.out, spark=spark)
    except JoineryError as error:
        print(f"golden_job.py: {error}", file=sys.stderr)
        return 2
    print(json.dumps(asdict(result)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
