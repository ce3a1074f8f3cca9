//! The row of APIServices: what routes, discovery, OpenAPI and tables are read from.

fn main() {
    let row = aggregator::api_services();
    println!("{} {} ({})", row.api_version(), row.kind, row.plural);
    for subresource in &row.subresources {
        println!("  /{} {:?}", subresource.name, subresource.verbs);
    }
}
