"""The evidence of a purification as one HTML page."""

from purigraph.report.page import page_text, write_page

__all__ = ["page_text", "write_page"]
