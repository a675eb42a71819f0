"""The exceptions of vitrine."""


class Error(Exception):
    """Base of every exception of the engine. The message is one line: ``[where] expected …, got …``."""


class BadInput(Error, ValueError):
    """An argument is invalid: ids beyond the vocabulary, a prompt that is too long, a wrong path."""


class BadCheckpoint(Error):
    """A file of a model or tokenizer is malformed or inconsistent."""


class Unsupported(Error, NotImplementedError):
    """The input is valid but needs a feature that vitrine does not implement."""


class OutOfCapacity(Error, MemoryError):
    """A limit of memory, disk or cache was reached."""
