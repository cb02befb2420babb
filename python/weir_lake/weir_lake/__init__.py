"""Questions to many recorded runs of weir: a data set of Parquet files on DuckDB, DataFusion or Spark."""

from weir_lake.lake import Answer, Lake, LakeError, Saved, open, questions

__all__ = ["Answer", "Lake", "LakeError", "Saved", "open", "questions"]
