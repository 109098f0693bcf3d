package bucket

import (
	"crypto/hmac"
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// The key that the storage knows.
const (
	accessKey = "AKIDTEST"
	secretKey = "hunter2/hunter2"
	region    = "eu-test-1"
)

// storage is a small S3 server: multipart uploads, with signatures of version 4 that are verified.
type storage struct {
	t *testing.T
	// before is called with each request that is in order; false ends the request with what it answered.
	before func(n int, rw http.ResponseWriter, r *http.Request) bool

	mu       sync.Mutex // guards all below
	requests []string   // method and query, without the upload's id
	uploads  map[string]*upload
	objects  map[string][]byte
	meta     map[string]http.Header
}

type upload struct {
	path  string
	meta  http.Header
	parts map[int][]byte
}

func newStorage(t *testing.T) *storage {
	return &storage{t: t, uploads: map[string]*upload{}, objects: map[string][]byte{}, meta: map[string]http.Header{}}
}

func (s *storage) refuse(rw http.ResponseWriter, status int, code string) {
	rw.WriteHeader(status)
	fmt.Fprintf(rw, "<Error><Code>%s</Code><Message>at 10.0.0.1</Message></Error>", code)
}

func (s *storage) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client has gone
	}
	query := r.URL.Query()
	id := query.Get("uploadId")
	query.Del("uploadId")
	s.mu.Lock()
	s.requests = append(s.requests, strings.TrimSpace(r.Method+" "+query.Encode()))
	n := len(s.requests)
	s.mu.Unlock()
	if why := wrongSignature(r, body); why != "" {
		s.t.Errorf("%s %s: %s", r.Method, r.URL, why)
		s.refuse(rw, 403, "SignatureDoesNotMatch")
		return
	}
	if s.before != nil && !s.before(n, rw, r) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Method == "POST" && query.Has("uploads") {
		id = fmt.Sprintf("upload %d/+", len(s.uploads)+1)
		s.uploads[id] = &upload{path: r.URL.Path, meta: r.Header.Clone(), parts: map[int][]byte{}}
		fmt.Fprintf(rw, "<InitiateMultipartUploadResult><UploadId>%s</UploadId></InitiateMultipartUploadResult>", id)
		return
	}
	u := s.uploads[id]
	part, _ := strconv.Atoi(query.Get("partNumber"))
	switch {
	case u == nil || u.path != r.URL.Path:
		s.refuse(rw, 404, "NoSuchUpload")
	case r.Method == "PUT" && part > 0:
		u.parts[part] = body
		rw.Header().Set("ETag", tagOf(body))
	case r.Method == "POST":
		s.complete(rw, id, u, body)
	default:
		s.t.Errorf("%s %s is no request of a delivery", r.Method, r.URL)
		s.refuse(rw, 405, "MethodNotAllowed")
	}
}

// complete makes the object of an upload. All of its parts must be named, in order.
func (s *storage) complete(rw http.ResponseWriter, id string, u *upload, body []byte) {
	var sent struct {
		Part []struct {
			PartNumber int
			ETag       string
		}
	}
	if err := xml.Unmarshal(body, &sent); err != nil || len(sent.Part) != len(u.parts) {
		s.refuse(rw, 400, "MalformedXML")
		return
	}
	whole := []byte{}
	for i, p := range sent.Part {
		if p.PartNumber != i+1 || strings.Trim(p.ETag, `"`) != strings.Trim(tagOf(u.parts[i+1]), `"`) {
			s.refuse(rw, 400, "InvalidPart")
			return
		}
		whole = append(whole, u.parts[i+1]...)
	}
	s.objects[u.path], s.meta[u.path] = whole, u.meta
	delete(s.uploads, id)
	fmt.Fprintf(rw, "<CompleteMultipartUploadResult><Bucket>b</Bucket><Key>k</Key><ETag>x</ETag>"+
		"</CompleteMultipartUploadResult>")
}

func tagOf(part []byte) string { return fmt.Sprintf(`"%x"`, md5.Sum(part)) }

// seen returns the requests so far, and forgets them.
func (s *storage) seen() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.requests
	s.requests = nil
	return all
}

// object returns the object at a path.
func (s *storage) object(path string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.objects[path]
}

// wrongSignature verifies a request as AWS documents it (Signature Version 4), and returns what is wrong; empty if
// nothing is.
func wrongSignature(r *http.Request, body []byte) string {
	sum := sha256.Sum256(body)
	payload := r.Header.Get("X-Amz-Content-Sha256")
	if payload != hex.EncodeToString(sum[:]) && (len(body) > 0 || payload != "UNSIGNED-PAYLOAD") {
		return "the checksum of the body is not signed: " + payload
	}
	rest, ok := strings.CutPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 ")
	if !ok {
		return "no signature"
	}
	fields := map[string]string{}
	for field := range strings.SplitSeq(rest, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(field), "=")
		fields[name] = value
	}
	scope := strings.Split(fields["Credential"], "/")
	if len(scope) != 5 || scope[0] != accessKey || scope[2] != region || scope[3] != "s3" {
		return "another credential: " + fields["Credential"]
	}
	names := strings.Split(fields["SignedHeaders"], ";")
	canonical := r.Method + "\n" + r.URL.EscapedPath() + "\n" + canonicalQuery(r.URL.Query()) + "\n"
	for _, name := range names {
		value := r.Header.Get(name)
		if name == "host" {
			value = r.Host
		}
		canonical += name + ":" + strings.TrimSpace(value) + "\n"
	}
	for name := range r.Header {
		name = strings.ToLower(name)
		if strings.HasPrefix(name, "x-amz-") && !slices.Contains(names, name) {
			return name + " is not signed"
		}
	}
	canonical += "\n" + fields["SignedHeaders"] + "\n" + payload
	hash := sha256.Sum256([]byte(canonical))
	text := "AWS4-HMAC-SHA256\n" + r.Header.Get("X-Amz-Date") + "\n" + strings.Join(scope[1:], "/") + "\n" +
		hex.EncodeToString(hash[:])
	key := []byte("AWS4" + secretKey)
	for _, part := range append(scope[1:], text) {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(part))
		key = mac.Sum(nil)
	}
	if hex.EncodeToString(key) != fields["Signature"] {
		return "another signature"
	}
	return ""
}

// canonicalQuery is the query as it is signed: sorted, with spaces as %20.
func canonicalQuery(query url.Values) string { return strings.ReplaceAll(query.Encode(), "+", "%20") }
