"""Differential test: random commands are sent to two servers, and the replies are compared byte by byte."""
