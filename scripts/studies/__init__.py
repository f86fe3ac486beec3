"""Shared parts of the studies: resumable cells, devices and their emulation, load, charts."""
