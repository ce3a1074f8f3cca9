//! Below `/debug`: how much is logged, which can be changed while the server runs, and the index of profiles.

use async_trait::async_trait;
use http::{HeaderValue, Method, StatusCode, header};
use machinery::meta::status::Status;

use crate::{
    body::Body,
    endpoint::Endpoint,
    handlers::read_body,
    request::Request,
    response::{self, Response, page_not_found},
};

/// Sets how much is logged, from the text of `--v`.
pub type SetVerbosity = fn(&str) -> Result<(), VerbosityError>;

/// Why it stays as it is how much is logged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VerbosityError {
    /// The text is no number, as Go says it.
    #[error("strconv.ParseInt: parsing {0:?}: invalid syntax")]
    Syntax(String),
    /// Nothing is logged at all.
    #[error("nothing is logged")]
    NoLog,
    /// The log cannot be changed any more; what it says of that.
    #[error("{0}")]
    Log(String),
}

/// `/debug/flags` and `/debug/flags/v`.
pub struct Verbosity(pub SetVerbosity);

#[async_trait]
impl Endpoint for Verbosity {
    async fn serve(&self, mut request: Request) -> Result<Response, Status> {
        if request.info.path != "/debug/flags/v" {
            let page = "<html>\n<head>\n<title>/debug/flags/</title>\n</head>\n<body>\n/debug/flags/v: a PUT sets it\n\
                        </body>\n</html>\n";
            return Ok(response::bytes(StatusCode::OK, "text/html; charset=utf-8", Body::full(page)));
        }
        if request.method != Method::PUT {
            return Ok(plain(StatusCode::NOT_ACCEPTABLE, "unsupported http method"));
        }
        let body = read_body(&mut request).await?;
        let value = String::from_utf8_lossy(&body);
        Ok(match (self.0)(&value) {
            Ok(()) => plain(StatusCode::OK, &format!("successfully set klog.logging.verbosity to {value}")),
            Err(why) => plain(StatusCode::BAD_REQUEST, &format!("failed set klog.logging.verbosity {value}: {why}")),
        })
    }
}

fn plain(code: StatusCode, text: &str) -> Response {
    response::bytes(code, "text/plain", Body::full(format!("{text}\n")))
}

/// `/debug/pprof`. Differs: Go's runtime profiles (heap, goroutine and the like) are not there; what is left are the index,
/// the command line and a CPU profile of threads.
pub struct Profiles;

#[async_trait]
impl Endpoint for Profiles {
    async fn serve(&self, request: Request) -> Result<Response, Status> {
        Ok(match request.info.path.as_str() {
            "/debug/pprof" => {
                let mut response = Response::new(Body::empty());
                *response.status_mut() = StatusCode::MOVED_PERMANENTLY;
                response.headers_mut().insert(header::LOCATION, HeaderValue::from_static("/debug/pprof/"));
                response
            }
            "/debug/pprof/" => {
                let page = "<html>\n<head>\n<title>/debug/pprof/</title>\n</head>\n<body>\n<a href='cmdline'>cmdline</a>\n\
                            <a href='profile'>profile</a>\n</body>\n</html>\n";
                response::bytes(StatusCode::OK, "text/html; charset=utf-8", Body::full(page))
            }
            "/debug/pprof/cmdline" => {
                let words: Vec<String> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
                response::text(StatusCode::OK, words.join("\0"))
            }
            "/debug/pprof/profile" => super::profile::serve(request.query.get("seconds")).await,
            path if path.starts_with("/debug/pprof/") => response::text(StatusCode::NOT_FOUND, "Unknown profile\n"),
            _ => page_not_found(),
        })
    }
}
