"""Checks shared by the constructors of the stream blocks."""


def require_positive(what: str, value: object) -> None:
    """Raise ``ValueError`` unless ``value`` is an integer of at least one."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{what} must be a positive integer, not {value!r}")
