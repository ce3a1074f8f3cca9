//! APIServices: routing, proxying, availability, merged discovery
