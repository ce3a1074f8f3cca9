//! What the three servers share: serving, pipeline, handlers, registry, admission, authentication, discovery, OpenAPI, tasks
