"""Differential test: the same random commands to two servers, replies compared byte by byte."""
