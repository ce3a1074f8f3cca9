//! The row of CustomResourceDefinitions: what routes, discovery, OpenAPI and tables are read from.

fn main() {
    let row = apiextensions::row();
    println!("{} {} ({})", row.api_version(), row.kind, row.plural);
    for subresource in &row.subresources {
        println!("  /{} {:?}", subresource.name, subresource.verbs);
    }
}
