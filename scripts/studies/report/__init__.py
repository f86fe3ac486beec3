"""The pages of the report, one module a study."""
