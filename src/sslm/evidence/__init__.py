"""What shows afterwards that an answer was computed right: records, replay, proofs, golden runs."""
