package tus

import (
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"hash"
	"net/http"
	"strconv"
	"strings"
	"time"

	"probity/api/httpd"
)

// Path is where uploads are created, and below which they are.
const Path = "/v1/uploads"

// version is the version of the protocol.
const version = "1.0.0"

// algorithms are the checksums that a piece can have. They find errors of the network; the protocol requires sha1.
var algorithms = map[string]func() hash.Hash{"sha1": sha1.New, "sha256": sha256.New}

// SendOptions tells clients what the server can do.
func (s *Store) SendOptions(c *httpd.Call, _ string) error {
	if s == nil {
		return errNone
	}
	h := &c.Ctx.Response.Header
	h.Set("Tus-Resumable", version)
	h.Set("Tus-Version", version)
	h.Set("Tus-Extension", "creation,checksum,expiration,termination")
	h.Set("Tus-Checksum-Algorithm", "sha1,sha256")
	h.Set("Tus-Max-Size", strconv.FormatInt(s.cfg.MaxBytes, 10))
	return c.SendBytes(httpd.StatusNoContent, nil)
}

// errNone is the answer of a server without a Store.
var errNone = httpd.Refuse(httpd.Unacceptable, "This server keeps no uploads: send the list as file of POST /v1/verify/bulk.")

// begin checks the version of the protocol, and sets that of the answer.
func (s *Store) begin(c *httpd.Call) error {
	if s == nil {
		return errNone
	}
	c.Ctx.Response.Header.Set("Tus-Resumable", version)
	if header(c, "Tus-Resumable") == version {
		return nil
	}
	c.Ctx.Response.Header.Set("Tus-Version", version)
	return httpd.Refuse(httpd.Precondition, "This server speaks tus %s: send Tus-Resumable: %[1]s.", version)
}

func header(c *httpd.Call, name string) string { return string(c.Ctx.Request.Header.Peek(name)) }

// number reads a header that is a number.
func number(c *httpd.Call, name string) (int64, error) {
	n, err := strconv.ParseInt(header(c, name), 10, 64)
	if err != nil || n < 0 {
		return 0, httpd.Refuse(httpd.Malformed, "%s must be a number of bytes.", name)
	}
	return n, nil
}

// Create serves POST: it makes an upload of the account.
func (s *Store) Create(c *httpd.Call, account string) error {
	if err := s.begin(c); err != nil {
		return err
	}
	length, err := number(c, "Upload-Length")
	if err != nil {
		return err
	}
	if length == 0 {
		return httpd.Refuse(httpd.Malformed, "Upload-Length must be above 0.")
	}
	if length > s.cfg.MaxBytes {
		return httpd.Refuse(httpd.TooLarge, "An upload has at most %d bytes: send the list in parts, or packed.",
			s.cfg.MaxBytes)
	}
	filename, err := filenameIn(header(c, "Upload-Metadata"))
	if err != nil {
		return err
	}
	u, err := s.create(account, filename, length)
	if err != nil {
		return err
	}
	c.Ctx.Response.Header.Set("Location", Path+"/"+u.ID)
	u.setHeaders(c)
	return c.SendJSON(httpd.StatusCreated, u.shown())
}

// filenameIn returns the file name in the metadata of an upload: pairs of a name and a value in base64.
func filenameIn(metadata string) (string, error) {
	filename := ""
	for pair := range strings.SplitSeq(metadata, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(pair), " ")
		text, err := base64.StdEncoding.Strict().DecodeString(value)
		if err != nil || len(text) > maxName {
			return "", httpd.Refuse(httpd.Malformed, "Upload-Metadata must be pairs of a name and a value in base64 of at most %d bytes.",
				maxName)
		}
		if name == "filename" || name == "name" && filename == "" {
			filename = string(text)
		}
	}
	return filename, nil
}

// shown is the upload as JSON.
func (u *Upload) shown() any {
	return map[string]any{"upload_id": u.ID, "length": u.Length, "offset": u.Offset,
		"expires_at": u.Expires.UTC().Format(time.RFC3339)}
}

// setHeaders sets the headers that tell of an upload.
func (u *Upload) setHeaders(c *httpd.Call) {
	h := &c.Ctx.Response.Header
	h.Set("Upload-Offset", strconv.FormatInt(u.Offset, 10))
	h.Set("Upload-Length", strconv.FormatInt(u.Length, 10))
	h.Set("Upload-Expires", u.Expires.UTC().Format(http.TimeFormat))
}

// Show serves GET and HEAD: how far an upload is.
func (s *Store) Show(c *httpd.Call, account string) error {
	if err := s.begin(c); err != nil {
		return err
	}
	u, err := s.find(account, c.Param)
	if err != nil {
		return err
	}
	u.setHeaders(c)
	return c.SendJSON(httpd.StatusOK, u.shown())
}

// Append serves PATCH: it appends a piece to an upload.
func (s *Store) Append(c *httpd.Call, account string) error {
	if err := s.begin(c); err != nil {
		return err
	}
	offset, err := number(c, "Upload-Offset")
	if err != nil {
		return err
	}
	sum, err := parseChecksum(header(c, "Upload-Checksum"))
	if err != nil {
		return err
	}
	u, err := s.reserve(account, c.Param)
	if err != nil {
		return err
	}
	defer s.release(u.ID)
	if offset != u.Offset {
		u.setHeaders(c)
		return httpd.Refuse(httpd.Conflict, "The upload has %d bytes, not %d: send what follows them.", u.Offset, offset)
	}
	if err := s.write(&u, httpd.PieceOf(c), sum); err != nil {
		return err
	}
	u.setHeaders(c)
	return c.SendBytes(httpd.StatusNoContent, nil)
}

// Delete serves DELETE: it ends an upload, complete or not.
func (s *Store) Delete(c *httpd.Call, account string) error {
	if err := s.begin(c); err != nil {
		return err
	}
	u, err := s.reserve(account, c.Param)
	if err != nil {
		return err
	}
	if err := s.remove(u.ID); err != nil {
		return err
	}
	return c.SendBytes(httpd.StatusNoContent, nil)
}

// parseChecksum parses the checksum of a piece: an algorithm, and the sum in base64.
func parseChecksum(text string) (*checksum, error) {
	if text == "" {
		return nil, nil
	}
	algorithm, encoded, _ := strings.Cut(text, " ")
	newHash := algorithms[algorithm]
	want, err := base64.StdEncoding.Strict().DecodeString(encoded)
	if newHash == nil || err != nil {
		return nil, httpd.Refuse(httpd.Malformed, "Upload-Checksum must be sha1 or sha256, a space, and the sum in base64.")
	}
	return &checksum{newHash(), want}, nil
}
