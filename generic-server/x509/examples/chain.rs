//! Judges whether a server may show a certificate under a name, as Go's crypto/x509 does.

use std::{env, error::Error};

use x509::{Certificate, Purpose, Roots};

fn main() -> Result<(), Box<dyn Error>> {
    let name = env::args().nth(1).unwrap_or_else(|| "www.example".to_owned());
    let key = rcgen::KeyPair::generate()?;
    let made = rcgen::CertificateParams::new(vec!["api.example".to_owned()])?.self_signed(&key)?;
    let roots = Roots::from_pem(made.pem().as_bytes())?;
    let certificate = Certificate::parse(made.der()).map_err(|why| why.to_string())?;
    let now = certificate.not_after() - 60;
    match roots.verify(&certificate, &[], Purpose::Server(&name), now) {
        Ok(_) => println!("{name} may show it"),
        Err(why) => println!("{why}"),
    }
    Ok(())
}
