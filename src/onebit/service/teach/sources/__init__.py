"""What can be taught: digits, a folder of images, a text, or a table, as items with contexts."""

from onebit.service.teach.sources.opening import open_items

__all__ = ["open_items"]
