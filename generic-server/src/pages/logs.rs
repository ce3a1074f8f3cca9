//! `--enable-logs-handler`: the host's logs, `/var/log`, below `/logs`.

use std::{
    io,
    path::{Component, Path, PathBuf},
    time::SystemTime,
};

use async_trait::async_trait;
use http::{HeaderValue, Method, StatusCode, header};
use machinery::meta::status::Status;
use tokio::{
    fs::File,
    io::{AsyncReadExt as _, AsyncSeekExt as _},
};

use super::file::file_chunks;
use crate::{
    body::Body,
    endpoint::Endpoint,
    request::Request,
    response::{self, Response},
};

const FOLDER: &str = "/var/log";
/// So much of a file says what it holds.
const SNIFFED: usize = 512;
/// So many names of a folder are listed.
const MOST: usize = 10_000;

/// `/logs` and everything below it.
pub struct Logs(PathBuf);

impl Default for Logs {
    fn default() -> Self {
        Logs(FOLDER.into())
    }
}

#[async_trait]
impl Endpoint for Logs {
    async fn serve(&self, request: Request) -> Result<Response, Status> {
        if request.method != Method::GET && request.method != Method::HEAD {
            return Err(Status::method_not_allowed());
        }
        let path = request.info.path.as_str();
        let Some(below) = below(path) else { return Ok(plain(StatusCode::BAD_REQUEST, "invalid URL path")) };
        let wanted = self.0.join(below);
        let found = match tokio::fs::metadata(&wanted).await {
            Ok(found) => found,
            Err(error) => return Ok(failed(&error)),
        };
        let seen = request.header("if-modified-since").and_then(|text| httpdate::parse_http_date(text).ok());
        let answer = match (found.is_dir(), path.ends_with('/') || path == "/logs") {
            (true, true) => listed(wanted).await,
            // Names in a folder's list are relative to it.
            (true, false) => Ok(moved(&format!("{}/", path.rsplit('/').next().unwrap_or_default()))),
            (false, true) => {
                Ok(moved(&format!("../{}", below.trim_end_matches('/').rsplit('/').next().unwrap_or_default())))
            }
            (false, false) => file(&wanted, found.modified().ok(), seen).await,
        };
        Ok(answer.unwrap_or_else(|error| failed(&error)))
    }
}

/// What a path names below the folder: nothing above it.
fn below(path: &str) -> Option<&str> {
    let below = path.strip_prefix("/logs").unwrap_or_default().trim_start_matches('/');
    let names = Path::new(below).components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    (names && !below.contains('\0')).then_some(below)
}

fn plain(code: StatusCode, text: &str) -> Response {
    response::text(code, format!("{text}\n"))
}

fn failed(error: &io::Error) -> Response {
    match error.kind() {
        // A name that is too long is none of a file.
        io::ErrorKind::NotFound | io::ErrorKind::InvalidFilename | io::ErrorKind::NotADirectory => {
            plain(StatusCode::NOT_FOUND, "404 page not found")
        }
        io::ErrorKind::PermissionDenied => plain(StatusCode::FORBIDDEN, "403 Forbidden"),
        _ => plain(StatusCode::INTERNAL_SERVER_ERROR, "500 Internal Server Error"),
    }
}

fn moved(to: &str) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::MOVED_PERMANENTLY;
    if let Ok(to) = HeaderValue::from_str(to) {
        response.headers_mut().insert(header::LOCATION, to);
    }
    response
}

/// The names in a folder, as a page.
async fn listed(folder: PathBuf) -> io::Result<Response> {
    let mut names = Vec::new();
    let mut entries = tokio::fs::read_dir(folder).await?;
    while let Some(entry) = entries.next_entry().await? {
        let slash = if entry.file_type().await.is_ok_and(|kind| kind.is_dir()) { "/" } else { "" };
        names.push(format!("{}{slash}", entry.file_name().to_string_lossy()));
        if names.len() == MOST {
            break;
        }
    }
    names.sort();
    let lines = names.iter().map(|name| format!("<a href=\"{}\">{}</a>\n", link(name), escaped(name)));
    let page = format!(
        "<!doctype html>\n<meta name=\"viewport\" content=\"width=device-width\">\n<pre>\n{}</pre>\n",
        lines.collect::<String>()
    );
    Ok(response::bytes(StatusCode::OK, "text/html; charset=utf-8", Body::full(page)))
}

/// A name as a link to it.
fn link(name: &str) -> String {
    let kept = |b: u8| b.is_ascii_alphanumeric() || b"-_.~/+$&,=@".contains(&b);
    // A colon is not: nothing before it is a scheme.
    name.bytes().map(|b| if kept(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}

fn escaped(text: &str) -> String {
    let pairs = [("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("\"", "&#34;"), ("'", "&#39;")];
    pairs.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

/// A file, unless it is as the client has seen it.
async fn file(path: &Path, modified: Option<SystemTime>, seen: Option<SystemTime>) -> io::Result<Response> {
    let mut file = File::open(path).await?;
    let found = file.metadata().await?;
    if !found.is_file() {
        return Err(io::ErrorKind::PermissionDenied.into()); // a pipe would never end
    }
    let second = |time: SystemTime| time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let is_seen = modified.zip(seen).is_some_and(|(modified, seen)| second(modified) <= second(seen));
    let mut response = if is_seen {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        response
    } else {
        let mut first = vec![0; SNIFFED];
        let read = file.read(&mut first).await?;
        file.rewind().await?;
        // It may grow while it is read; what was promised is sent.
        let length = found.len();
        let body = Body::large(file_chunks(file, length), Some(length), length);
        response::bytes(StatusCode::OK, content_type(&first[..read]), body)
    };
    if let Some(modified) = modified.and_then(|time| HeaderValue::from_str(&httpdate::fmt_http_date(time)).ok()) {
        response.headers_mut().insert(header::LAST_MODIFIED, modified);
    }
    Ok(response)
}

/// What a file holds, by how it begins.
fn content_type(first: &[u8]) -> &'static str {
    let is_control = |b: &u8| matches!(b, 0..=8 | 0x0b | 0x0e..=0x1a | 0x1c..=0x1f);
    match first {
        [0x1f, 0x8b, 0x08, ..] => "application/x-gzip",
        text if text.iter().any(is_control) => "application/octet-stream",
        _ => "text/plain; charset=utf-8",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_above_the_folder_is_named() {
        for (path, expect) in [
            ("/logs", Some("")),
            ("/logs/", Some("")),
            ("/logs/a/b.log", Some("a/b.log")),
            ("/logs//etc/passwd", Some("etc/passwd")),
            ("/logs/../etc", None),
            ("/logs/a/../../etc", None),
            ("/logs/a\0b", None),
        ] {
            assert_eq!(below(path), expect, "{path:?}");
        }
    }

    #[test]
    fn names_of_files_are_text_and_no_markup() {
        assert_eq!(link("a b<c>.log"), "a%20b%3Cc%3E.log");
        assert_eq!(link("javascript:x"), "javascript%3Ax");
        assert_eq!(escaped("a<b>&\"'"), "a&lt;b&gt;&amp;&#34;&#39;");
    }

    #[tokio::test]
    async fn files_and_folders_are_shown() {
        use http_body_util::BodyExt as _;
        let dir = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(dir.path().join("pods")).expect("it is made");
        std::fs::write(dir.path().join("x.log"), "one\ntwo\n").expect("it is written");
        let text = async |response: Response| {
            let bytes = response.into_body().collect().await.expect("a body").to_bytes();
            String::from_utf8(bytes.to_vec()).expect("text")
        };
        let page = text(listed(dir.path().to_owned()).await.expect("it is there")).await;
        assert!(page.contains("<a href=\"pods/\">pods/</a>\n<a href=\"x.log\">x.log</a>\n"), "{page}");
        let path = dir.path().join("x.log");
        let response = file(&path, None, None).await.expect("it is there");
        assert_eq!(response.headers()[header::CONTENT_TYPE], "text/plain; charset=utf-8");
        assert_eq!(text(response).await, "one\ntwo\n");
        let now = Some(SystemTime::now());
        assert_eq!(file(&path, now, now).await.expect("it is there").status(), StatusCode::NOT_MODIFIED);
    }
}
