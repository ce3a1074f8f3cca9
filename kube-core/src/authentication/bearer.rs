//! All who know bearer tokens, in the order in which they are asked: those who know them by heart first, those who have to ask
//! others last.

use std::{sync::Arc, time::Duration};

use auth::{
    TokenAuthenticator, TokenAuthenticators,
    authn::{
        CacheMetrics, CachedTokens, NoRandomNumbers,
        bootstrap::{BootstrapTokens, FindSecret},
    },
};
use generic_server::registry::{Lister, Listers};
use machinery::{Str, codec::json};

/// How long the owner of a token is known without asking again (upstream's cache).
const SUCCESS_TTL: Duration = Duration::from_secs(10);

/// Who knows bearer tokens, besides those of service accounts.
pub struct BearerTokens {
    /// Asked before service accounts.
    pub local: Vec<Arc<dyn TokenAuthenticator>>,
    /// Whether there are bootstrap tokens.
    pub bootstrap: bool,
    /// Asked last: identity providers, webhooks.
    pub remote: Vec<Arc<dyn TokenAuthenticator>>,
    /// What is counted of the verdicts of the latter two, which are kept for a while.
    pub metrics: CacheMetrics,
}

impl BearerTokens {
    /// All of them, service accounts among them.
    ///
    /// # Errors
    /// If the system gives no random numbers.
    pub(crate) fn all(
        self,
        service_accounts: Arc<dyn TokenAuthenticator>,
        listers: &Listers,
        audiences: &Arc<[Str]>,
    ) -> Result<TokenAuthenticators, NoRandomNumbers> {
        let mut all = self.local;
        all.push(service_accounts);
        let mut cached: Vec<Arc<dyn TokenAuthenticator>> = Vec::new();
        if self.bootstrap {
            let secrets = listers.of("", "secrets").clone();
            cached.push(Arc::new(BootstrapTokens::new(audiences.clone(), find_secret(secrets))));
        }
        cached.extend(self.remote);
        if !cached.is_empty() {
            all.push(Arc::new(CachedTokens::new(cached, SUCCESS_TTL, Duration::ZERO, self.metrics)?));
        }
        Ok(TokenAuthenticators(all))
    }
}

/// Finds secrets of kube-system in the watch cache.
fn find_secret(secrets: Arc<Lister>) -> FindSecret {
    Arc::new(move |name| {
        let snapshot = secrets.cache().latest();
        let entry = snapshot.get(&secrets.key("kube-system", name))?;
        json::decode(entry.object()?.bytes()).ok()
    })
}
