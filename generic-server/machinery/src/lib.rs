//! The Kubernetes object model and its rules: values, metadata, schemas, codecs, patches. No I/O, no async.
