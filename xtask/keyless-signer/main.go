// Signs plugins in a registry without a key of the signer's own, for `cargo xtask registries`. It has a certificate authority and a
// transparency log of its own, so that it contacts nothing but the registry. Sigstore's own packages make the certificates, the entries of the
// log, the bundles and the trust root, and their verifier accepts each bundle before it is pushed.
package main

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/cyberphone/json-canonicalization/go/src/webpki.org/jsoncanonicalizer"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	ocitypes "github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	protodsse "github.com/sigstore/protobuf-specs/gen/pb-go/dsse"
	protorekor "github.com/sigstore/protobuf-specs/gen/pb-go/rekor/v1"
	"github.com/sigstore/rekor/pkg/pki"
	"github.com/sigstore/rekor/pkg/types"
	dsseentry "github.com/sigstore/rekor/pkg/types/dsse"
	_ "github.com/sigstore/rekor/pkg/types/dsse/v0.0.1"
	"github.com/sigstore/rekor/pkg/util"
	"github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/testing/ca"
	"github.com/sigstore/sigstore-go/pkg/tlog"
	"github.com/sigstore/sigstore-go/pkg/verify"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
	sigdsse "github.com/sigstore/sigstore/pkg/signature/dsse"
	"github.com/transparency-dev/merkle/rfc6962"
)

const (
	bundleType    = "application/vnd.dev.sigstore.bundle.v0.3+json"
	payloadType   = "application/vnd.in-toto+json"
	predicateType = "https://sigstore.dev/cosign/sign/v1"
	logHost       = "rekor.localhost"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) < 4 {
		log.Fatal("usage: keyless-signer TRUST_ROOT ISSUER IDENTITY=REGISTRY/REPOSITORY@DIGEST...")
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3:]); err != nil {
		log.Fatal(err)
	}
}

// run writes a trust root, and pushes a signature for each identity and reference.
func run(file, issuer string, signatures []string) error {
	authority, err := newAuthority()
	if err != nil {
		return err
	}
	text, err := authority.trustRoot()
	if err != nil {
		return err
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return err
	}
	trusted, err := root.NewTrustedRootFromJSON(text)
	if err != nil {
		return err
	}
	for _, signature := range signatures {
		identity, reference, found := strings.Cut(signature, "=")
		if !found {
			return fmt.Errorf("%s: expected IDENTITY=REFERENCE", signature)
		}
		digest, err := name.NewDigest(reference, name.Insecure)
		if err != nil {
			return err
		}
		signed, err := authority.sign(identity, issuer, digest.DigestStr())
		if err != nil {
			return fmt.Errorf("sign %s: %w", reference, err)
		}
		if err := check(signed, trusted, identity, issuer, digest.DigestStr()); err != nil {
			return fmt.Errorf("sigstore-go refuses the signature of %s: %w", reference, err)
		}
		if err := push(signed, digest); err != nil {
			return fmt.Errorf("push the signature of %s: %w", reference, err)
		}
	}
	return nil
}

// authority issues certificates, and is the log that proves when something was signed.
type authority struct {
	root, intermediate *x509.Certificate
	intermediateKey    *ecdsa.PrivateKey
	logKey             *ecdsa.PrivateKey
	logID              [sha256.Size]byte
}

func newAuthority() (*authority, error) {
	root, rootKey, err := ca.GenerateRootCa()
	if err != nil {
		return nil, err
	}
	intermediate, intermediateKey, err := ca.GenerateFulcioIntermediate(root, rootKey)
	if err != nil {
		return nil, err
	}
	logKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	key, err := x509.MarshalPKIXPublicKey(logKey.Public())
	if err != nil {
		return nil, err
	}
	return &authority{root, intermediate, intermediateKey, logKey, sha256.Sum256(key)}, nil
}

func (a *authority) trustRoot() ([]byte, error) {
	start := time.Now().Add(-time.Hour)
	fulcio := &root.FulcioCertificateAuthority{
		Root: a.root, Intermediates: []*x509.Certificate{a.intermediate}, ValidityPeriodStart: start, URI: "https://fulcio.localhost",
	}
	rekor := &root.TransparencyLog{
		BaseURL: "https://" + logHost, ID: a.logID[:], ValidityPeriodStart: start, HashFunc: crypto.SHA256,
		PublicKey: a.logKey.Public(), SignatureHashFunc: crypto.SHA256,
	}
	trusted, err := root.NewTrustedRoot(root.TrustedRootMediaType01, []root.CertificateAuthority{fulcio}, nil, nil,
		map[string]*root.TransparencyLog{hex.EncodeToString(a.logID[:]): rekor})
	if err != nil {
		return nil, err
	}
	return trusted.MarshalJSON()
}

// sign makes a bundle with a statement about the digest, as `cosign sign` does.
func (a *authority) sign(identity, issuer, digest string) (*protobundle.Bundle, error) {
	ctx := context.Background()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	certificate, err := ca.GenerateLeafCert(identity, issuer, time.Now().Add(-time.Minute), key, a.intermediate, a.intermediateKey)
	if err != nil {
		return nil, err
	}
	algorithm, hash, _ := strings.Cut(digest, ":")
	statement, err := json.Marshal(map[string]any{
		"_type": "https://in-toto.io/Statement/v1", "predicateType": predicateType, "predicate": map[string]any{},
		"subject": []any{map[string]any{"digest": map[string]string{algorithm: hash}}},
	})
	if err != nil {
		return nil, err
	}
	signer, err := signature.LoadECDSASigner(key, crypto.SHA256)
	if err != nil {
		return nil, err
	}
	envelopes, err := dsse.NewEnvelopeSigner(&sigdsse.SignerAdapter{SignatureSigner: signer, Pub: certificate.PublicKey})
	if err != nil {
		return nil, err
	}
	envelope, err := envelopes.SignPayload(ctx, payloadType, statement)
	if err != nil {
		return nil, err
	}
	signed, err := base64.StdEncoding.DecodeString(envelope.Signatures[0].Sig)
	if err != nil {
		return nil, err
	}
	entry, err := a.record(ctx, envelope, certificate)
	if err != nil {
		return nil, err
	}
	return &protobundle.Bundle{
		MediaType: bundleType,
		VerificationMaterial: &protobundle.VerificationMaterial{
			Content:     &protobundle.VerificationMaterial_Certificate{Certificate: &protocommon.X509Certificate{RawBytes: certificate.Raw}},
			TlogEntries: []*protorekor.TransparencyLogEntry{entry},
		},
		Content: &protobundle.Bundle_DsseEnvelope{DsseEnvelope: &protodsse.Envelope{
			Payload: statement, PayloadType: payloadType, Signatures: []*protodsse.Signature{{Sig: signed}},
		}},
	}, nil
}

// record makes the entry of a log with this entry only.
func (a *authority) record(ctx context.Context, envelope *dsse.Envelope, certificate *x509.Certificate) (*protorekor.TransparencyLogEntry, error) {
	text, err := json.Marshal(envelope)
	if err != nil {
		return nil, err
	}
	pem, err := cryptoutils.MarshalCertificateToPEM(certificate)
	if err != nil {
		return nil, err
	}
	version := dsseentry.New().DefaultVersion()
	proposed, err := types.NewProposedEntry(ctx, dsseentry.KIND, version, types.ArtifactProperties{
		ArtifactBytes: text, PublicKeyBytes: [][]byte{pem}, PKIFormat: string(pki.X509),
	})
	if err != nil {
		return nil, err
	}
	versioned, err := types.CreateVersionedEntry(proposed)
	if err != nil {
		return nil, err
	}
	body, err := types.CanonicalizeEntry(ctx, versioned)
	if err != nil {
		return nil, err
	}
	signer, err := signature.LoadECDSASignerVerifier(a.logKey, crypto.SHA256)
	if err != nil {
		return nil, err
	}
	integrated := time.Now().Unix()
	payload, err := json.Marshal(tlog.RekorPayload{
		Body: base64.StdEncoding.EncodeToString(body), IntegratedTime: integrated, LogIndex: 0, LogID: hex.EncodeToString(a.logID[:]),
	})
	if err != nil {
		return nil, err
	}
	canonical, err := jsoncanonicalizer.Transform(payload)
	if err != nil {
		return nil, err
	}
	promise, err := signer.SignMessage(bytes.NewReader(canonical))
	if err != nil {
		return nil, err
	}
	hash := rfc6962.DefaultHasher.HashLeaf(body)
	checkpoint, err := util.CreateAndSignCheckpoint(ctx, logHost, 1, 1, hash, signer)
	if err != nil {
		return nil, err
	}
	return &protorekor.TransparencyLogEntry{
		LogIndex:         0,
		LogId:            &protocommon.LogId{KeyId: a.logID[:]},
		KindVersion:      &protorekor.KindVersion{Kind: dsseentry.KIND, Version: version},
		IntegratedTime:   integrated,
		InclusionPromise: &protorekor.InclusionPromise{SignedEntryTimestamp: promise},
		InclusionProof: &protorekor.InclusionProof{
			LogIndex: 0, TreeSize: 1, RootHash: hash, Checkpoint: &protorekor.Checkpoint{Envelope: string(checkpoint)},
		},
		CanonicalizedBody: body,
	}, nil
}

// check verifies a bundle as other clients of Sigstore do.
func check(signed *protobundle.Bundle, trusted root.TrustedMaterial, identity, issuer, digest string) error {
	verifier, err := verify.NewVerifier(trusted, verify.WithTransparencyLog(1), verify.WithIntegratedTimestamps(1))
	if err != nil {
		return err
	}
	parsed, err := bundle.NewBundle(signed)
	if err != nil {
		return err
	}
	expected, err := verify.NewShortCertificateIdentity(issuer, "", identity, "")
	if err != nil {
		return err
	}
	algorithm, text, _ := strings.Cut(digest, ":")
	hash, err := hex.DecodeString(text)
	if err != nil {
		return err
	}
	_, err = verifier.Verify(parsed, verify.NewPolicy(verify.WithArtifactDigest(algorithm, hash), verify.WithCertificateIdentity(expected)))
	return err
}

// push attaches a bundle to what it signs, by the referrers API or by the tag that replaces it.
func push(signed *protobundle.Bundle, reference name.Digest) error {
	parsed, err := bundle.NewBundle(signed)
	if err != nil {
		return err
	}
	text, err := parsed.MarshalJSON()
	if err != nil {
		return err
	}
	subject, err := remote.Head(reference)
	if err != nil {
		return err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, ocitypes.OCIManifestSchema1), bundleType)
	image, err = mutate.AppendLayers(image, static.NewLayer(text, bundleType))
	if err != nil {
		return err
	}
	attached, isImage := mutate.Subject(image, *subject).(v1.Image)
	if !isImage {
		return fmt.Errorf("an image with a subject is no image")
	}
	digest, err := attached.Digest()
	if err != nil {
		return err
	}
	return remote.Write(reference.Context().Digest(digest.String()), attached)
}
