"""Databases that cells, fillers and the matrix itself use."""

#: Databases of all cells that leave their database as a whole alone, and of those that empty it: pairs.
SHARED, FIRST_OF_ITS_OWN, DATABASES = (1, 2), 4, 128
#: Left for the filler and for the writes that ask whether the server still takes any.
FILLER_DATABASE, HEALTH_DATABASE = 126, 127
