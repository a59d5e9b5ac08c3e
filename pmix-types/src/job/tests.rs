//! Tests of job data.
