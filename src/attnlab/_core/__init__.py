"""Foundations shared by every room: errors, precision, progress, interruption, checkpoints.

Nothing here knows about attention. Modules of this room import from no other room.
"""
