//! Knows users by the tokens of a file, after another authenticator has had its turn.

use std::{error::Error, sync::Arc};

use auth::{StaticTokens, TokenAuthenticator, TokenAuthenticators};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let parse = |text: &str| StaticTokens::parse("tokens.csv", text, Default::default());
    let first: Arc<dyn TokenAuthenticator> = Arc::new(parse("first,alice,1001,\"dev,qa\"")?);
    let second: Arc<dyn TokenAuthenticator> = Arc::new(parse("second,bob,1002")?);
    let all = TokenAuthenticators(vec![first, second]);
    for token in ["first", "second", "third"] {
        match all.owner(token, None).await {
            Ok(owner) => println!("{token} is of {} in {:?}", owner.user.name, owner.user.groups),
            Err(why) => println!("{token}: {why}"),
        }
    }
    Ok(())
}
