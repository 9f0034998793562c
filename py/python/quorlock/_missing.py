"""What to do where the compiled part of the package cannot be loaded."""

try:
    from . import _native as _native
except ImportError as error:
    import importlib.util

    if importlib.util.find_spec("quorlock._native") is None:
        raise ImportError(
            "quorlock has no compiled part here that fits this Python: install it by pip for this one "
            "(`python -m pip install --force-reinstall quorlock`). In its sources, `make python` makes one, and a "
            "program that is started in the folder `py/python` sees the sources in its place"
        ) from error
    if "subinterpreter" in str(error):
        raise ImportError(
            "quorlock does not run in subinterpreters, but in the main interpreter of a process alone. For mod_wsgi, write "
            "`WSGIApplicationGroup %{GLOBAL}`; for uWSGI, `single-interpreter = true`; in a program of yours, import it "
            "there, or use processes"
        ) from error
    raise
