"""Shared parts of the studies: resumable cells, devices and their stand-ins, load, charts."""
