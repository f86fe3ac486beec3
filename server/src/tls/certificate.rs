//! Contents of a certificate: the names of a client, and the end of its validity.

use sexton_config::choice::TlsUser;
use x509_cert::Certificate;
use x509_cert::der::asn1::ObjectIdentifier;
use x509_cert::der::{Decode, Tag, Tagged};
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");
const ALTERNATIVE_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.17");

/// The user names that the certificate may represent, the first one first: its common name, or its URIs. Names are
/// bytes; names with a zero byte are ignored.
pub(super) fn user_names(der: &[u8], field: TlsUser) -> Vec<Vec<u8>> {
    let Ok(certificate) = Certificate::from_der(der) else { return Vec::new() };
    let certificate = certificate.tbs_certificate;
    let mut names = Vec::new();
    match field {
        TlsUser::Off => {}
        TlsUser::CommonName => {
            let attributes = certificate.subject.0.iter().flat_map(|part| part.0.iter());
            let first = attributes.into_iter().find(|attribute| attribute.oid == COMMON_NAME);
            names.extend(
                first
                    .filter(|attribute| is_text(attribute.value.tag()))
                    .map(|attribute| attribute.value.value().to_vec()),
            );
        }
        TlsUser::Uri => {
            let extensions = certificate.extensions.unwrap_or_default();
            let values =
                extensions.iter().filter(|extension| extension.extn_id == ALTERNATIVE_NAME);
            for value in values.filter_map(|extension| {
                SubjectAltName::from_der(extension.extn_value.as_bytes()).ok()
            }) {
                names.extend(value.0.into_iter().filter_map(|name| match name {
                    GeneralName::UniformResourceIdentifier(uri) => {
                        Some(uri.as_str().as_bytes().to_vec())
                    }
                    _ => None,
                }));
            }
        }
    }
    names.retain(|name| !name.is_empty() && !name.contains(&0));
    names
}

/// Kinds of text whose bytes are the name.
fn is_text(tag: Tag) -> bool {
    matches!(tag, Tag::Utf8String | Tag::PrintableString | Tag::Ia5String | Tag::TeletexString)
}

/// When it expires, in seconds since the epoch; 0 if unknown.
pub(super) fn not_after_s(der: &[u8]) -> u64 {
    Certificate::from_der(der).map_or(0, |certificate| {
        certificate.tbs_certificate.validity.not_after.to_unix_duration().as_secs()
    })
}
