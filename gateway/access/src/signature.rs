//! Signatures of tokens, verified by `ring`, which TLS uses too. The implementations of
//! `jsonwebtoken` need thirty more crates, or cmake.

use std::sync::LazyLock;

use isomer_service_kit::Fault;
use jsonwebtoken::{
    Algorithm, DecodingKey, DecodingKeyKind,
    crypto::{CryptoProvider, JwtVerifier, KeyUtils},
    errors::{Error, ErrorKind},
    signature::{self, Verifier},
};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384,
    RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256, RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512,
    RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm,
};

/// It only verifies signatures: the gateway signs no tokens.
static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: |_, _| Err(unsupported()),
    verifier_factory: verifier,
    key_utils: KeyUtils {
        rsa_pub_components_from_private_key: |_| Err(unsupported()),
        rsa_pub_components_from_public_key: |_| Err(unsupported()),
        ec_pub_components_from_private_key: |_, _| Err(unsupported()),
        ed_pub_components_from_private_key: |_, _| Err(unsupported()),
        compute_digest: |_, _| Err(unsupported()),
    },
};

fn unsupported() -> Error {
    ErrorKind::UnsupportedAlgorithm.into()
}

/// Makes `jsonwebtoken` verify with `ring` in this process.
pub(crate) fn install() -> Result<(), Fault> {
    static INSTALLED: LazyLock<bool> = LazyLock::new(|| PROVIDER.install_default().is_ok());
    if *INSTALLED {
        return Ok(());
    }
    Err(Fault::internal(
        "another part of this process chose how jsonwebtoken verifies signatures",
    ))
}

enum Scheme {
    /// RSA, with a key given as modulus and exponent.
    Rsa(&'static RsaParameters),
    Curve(&'static dyn VerificationAlgorithm),
}

fn scheme(algorithm: Algorithm) -> Option<Scheme> {
    Some(match algorithm {
        Algorithm::RS256 => Scheme::Rsa(&RSA_PKCS1_2048_8192_SHA256),
        Algorithm::RS384 => Scheme::Rsa(&RSA_PKCS1_2048_8192_SHA384),
        Algorithm::RS512 => Scheme::Rsa(&RSA_PKCS1_2048_8192_SHA512),
        Algorithm::PS256 => Scheme::Rsa(&RSA_PSS_2048_8192_SHA256),
        Algorithm::PS384 => Scheme::Rsa(&RSA_PSS_2048_8192_SHA384),
        Algorithm::PS512 => Scheme::Rsa(&RSA_PSS_2048_8192_SHA512),
        Algorithm::ES256 => Scheme::Curve(&ECDSA_P256_SHA256_FIXED),
        Algorithm::ES384 => Scheme::Curve(&ECDSA_P384_SHA384_FIXED),
        Algorithm::EdDSA => Scheme::Curve(&ED25519),
        // Shared secrets are never accepted.
        _ => return None,
    })
}

struct PublicKey {
    algorithm: Algorithm,
    scheme: Scheme,
    key: DecodingKey,
}

fn verifier(algorithm: &Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>, Error> {
    if !key.family().algorithms().contains(algorithm) {
        return Err(ErrorKind::InvalidKeyFormat.into());
    }
    Ok(Box::new(PublicKey {
        algorithm: *algorithm,
        scheme: scheme(*algorithm).ok_or_else(unsupported)?,
        key: key.clone(),
    }))
}

impl Verifier<Vec<u8>> for PublicKey {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> Result<(), signature::Error> {
        let verified = match (&self.scheme, self.key.kind()) {
            (Scheme::Rsa(scheme), DecodingKeyKind::RsaModulusExponent { n, e }) => {
                // Some providers include the zero that DER puts before a high bit; ring refuses it.
                let (n, e) = (without_zeros(n), without_zeros(e));
                RsaPublicKeyComponents { n, e }.verify(scheme, message, signature)
            }
            (Scheme::Rsa(scheme), DecodingKeyKind::SecretOrDer(key)) => {
                UnparsedPublicKey::new(*scheme, key).verify(message, signature)
            }
            (Scheme::Curve(scheme), DecodingKeyKind::SecretOrDer(key)) => {
                UnparsedPublicKey::new(*scheme, key).verify(message, signature)
            }
            (Scheme::Curve(_), DecodingKeyKind::RsaModulusExponent { .. }) => Err(ring::error::Unspecified),
        };
        verified.map_err(|_| signature::Error::new())
    }
}

impl JwtVerifier for PublicKey {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

fn without_zeros(number: &[u8]) -> &[u8] {
    let first = number.iter().position(|byte| *byte != 0).unwrap_or(number.len());
    &number[first..]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
    use jsonwebtoken::AlgorithmFamily;
    use ring::{rand::SystemRandom, rsa, signature as signing};
    use rustls_pki_types::{PrivatePkcs8KeyDer, pem::PemObject};

    use super::*;

    /// The key, message and signature of RFC 7515 A.2 and A.3, and of RFC 8037 A.4.
    fn published() -> [(Algorithm, DecodingKey, String, &'static str); 3] {
        let claims = "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ";
        let modulus = "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ";
        [
            (
                Algorithm::RS256,
                DecodingKey::from_rsa_components(modulus, "AQAB").unwrap(),
                format!("eyJhbGciOiJSUzI1NiJ9.{claims}"),
                "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw",
            ),
            (
                Algorithm::ES256,
                DecodingKey::from_ec_components(
                    "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
                    "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0",
                )
                .unwrap(),
                format!("eyJhbGciOiJFUzI1NiJ9.{claims}"),
                "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q",
            ),
            (
                Algorithm::EdDSA,
                DecodingKey::from_ed_components("11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo").unwrap(),
                "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc".to_owned(),
                "hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg",
            ),
        ]
    }

    fn holds(algorithm: Algorithm, key: &DecodingKey, message: &[u8], signature: &[u8]) -> bool {
        let verifier = verifier(&algorithm, key).unwrap();
        assert_eq!(verifier.algorithm(), algorithm);
        verifier.verify(message, &signature.to_vec()).is_ok()
    }

    #[test]
    fn published_signatures_hold_and_changed_ones_do_not() {
        for (algorithm, key, message, signature) in published() {
            let mut signature = BASE64_URL_SAFE_NO_PAD.decode(signature).unwrap();
            assert!(holds(algorithm, &key, message.as_bytes(), &signature), "{algorithm:?}");
            assert!(
                !holds(algorithm, &key, &message.as_bytes()[1..], &signature),
                "{algorithm:?}"
            );
            assert!(
                !holds(algorithm, &key, message.as_bytes(), &signature[1..]),
                "{algorithm:?}"
            );
            assert!(!holds(algorithm, &key, message.as_bytes(), b""), "{algorithm:?}");
            signature[0] ^= 1;
            assert!(!holds(algorithm, &key, message.as_bytes(), &signature), "{algorithm:?}");
        }
    }

    #[test]
    fn a_key_of_another_family_and_shared_secrets_are_refused() {
        let secret = DecodingKey::from_secret(b"secret");
        let families = [
            AlgorithmFamily::Hmac,
            AlgorithmFamily::Rsa,
            AlgorithmFamily::Ec,
            AlgorithmFamily::Ed,
        ];
        for algorithm in families.iter().flat_map(AlgorithmFamily::algorithms) {
            assert!(verifier(algorithm, &secret).is_err(), "{algorithm:?}");
            for (other, key, ..) in published() {
                let fits = key.family().algorithms().contains(algorithm);
                assert_eq!(
                    verifier(algorithm, &key).is_ok(),
                    fits,
                    "{algorithm:?} with a key for {other:?}"
                );
            }
        }
    }

    #[test]
    fn each_algorithm_verifies_its_own_signatures_only() {
        let rsa_key = PrivatePkcs8KeyDer::from_pem_slice(include_bytes!("../tests/it/attacks/rsa.pem")).unwrap();
        let pair = rsa::KeyPair::from_pkcs8(rsa_key.secret_pkcs8_der()).unwrap();
        let public = rsa::PublicKeyComponents::<Vec<u8>>::from(pair.public());
        let key = DecodingKey::from_rsa_raw_components(&public.n, &public.e);
        let signers: [(Algorithm, &dyn signing::RsaEncoding); 6] = [
            (Algorithm::RS256, &signing::RSA_PKCS1_SHA256),
            (Algorithm::RS384, &signing::RSA_PKCS1_SHA384),
            (Algorithm::RS512, &signing::RSA_PKCS1_SHA512),
            (Algorithm::PS256, &signing::RSA_PSS_SHA256),
            (Algorithm::PS384, &signing::RSA_PSS_SHA384),
            (Algorithm::PS512, &signing::RSA_PSS_SHA512),
        ];
        for (algorithm, scheme) in signers {
            let mut signature = vec![0; pair.public().modulus_len()];
            pair.sign(scheme, &SystemRandom::new(), b"message", &mut signature)
                .unwrap();
            for (other, _) in signers {
                assert_eq!(
                    holds(other, &key, b"message", &signature),
                    other == algorithm,
                    "{algorithm:?} as {other:?}"
                );
            }
        }
        let p384 = &signing::ECDSA_P384_SHA384_FIXED_SIGNING;
        let random = SystemRandom::new();
        let made = signing::EcdsaKeyPair::generate_pkcs8(p384, &random).unwrap();
        let pair = signing::EcdsaKeyPair::from_pkcs8(p384, made.as_ref(), &random).unwrap();
        let key = DecodingKey::from_ec_der(signing::KeyPair::public_key(&pair).as_ref());
        let signature = pair.sign(&random, b"message").unwrap();
        assert!(holds(Algorithm::ES384, &key, b"message", signature.as_ref()));
        assert!(!holds(Algorithm::ES256, &key, b"message", signature.as_ref()));
    }

    #[test]
    fn a_modulus_may_begin_with_zeros() {
        let [(algorithm, key, message, signature), ..] = published();
        let DecodingKeyKind::RsaModulusExponent { n, e } = key.kind() else {
            unreachable!()
        };
        let padded =
            DecodingKey::from_rsa_raw_components(&[&[0, 0], n.as_slice()].concat(), &[&[0], e.as_slice()].concat());
        let signature = BASE64_URL_SAFE_NO_PAD.decode(signature).unwrap();
        assert!(holds(algorithm, &padded, message.as_bytes(), &signature));
        let nothing = DecodingKey::from_rsa_raw_components(&[0], &[0]);
        assert!(!holds(algorithm, &nothing, message.as_bytes(), &signature));
    }
}
