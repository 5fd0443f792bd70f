"""The DuckDB file that keeps data sets, measurements and reports."""
