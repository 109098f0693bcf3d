package client

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"maps"
	"mime/multipart"
	"net/http"
	"strconv"
	"strings"
)

// resumedFrom is the size of a list, in bytes, from which an upload that broke off goes on where it stopped.
const resumedFrom = 8 << 20

// Upload is a list to verify.
type Upload struct {
	Filename string
	List     io.ReadSeeker // CSV, plain or compressed
	// Parts are other parts of the form, such as "callback_url" or "details"; docs/api.md lists them.
	Parts    map[string]string
	Progress func(sent, total int64) // bytes; may be nil
}

// Upload uploads a list, and returns its job. The list is not held in memory. If the connection of a list of 8 MiB or
// more breaks, what the server has is not sent again.
func (c *Client) Upload(ctx context.Context, u Upload) (*Job, error) {
	size, err := u.List.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, fmt.Errorf("size of the list: %w", err)
	}
	resumed := size >= resumedFrom
	if resumed {
		id, err := c.sendResumed(ctx, u, size)
		if err != nil {
			return nil, err
		}
		u.Parts = maps.Clone(u.Parts)
		if u.Parts == nil {
			u.Parts = map[string]string{}
		}
		u.Parts["upload_id"] = id
		u.List, u.Progress, size = strings.NewReader(""), nil, 0
	}
	var frame bytes.Buffer // of the form: what is around the list
	form := multipart.NewWriter(&frame)
	for name, value := range u.Parts {
		if err := form.WriteField(name, value); err != nil {
			return nil, err
		}
	}
	if !resumed {
		if _, err := form.CreateFormFile("file", u.Filename); err != nil {
			return nil, err
		}
	}
	before := bytes.Clone(frame.Bytes())
	frame.Reset()
	if err := form.Close(); err != nil {
		return nil, err
	}
	total := int64(len(before)) + size + int64(frame.Len())
	body := func() (io.Reader, error) {
		if _, err := u.List.Seek(0, io.SeekStart); err != nil {
			return nil, fmt.Errorf("list: %w", err)
		}
		whole := io.MultiReader(bytes.NewReader(before), u.List, bytes.NewReader(frame.Bytes()))
		return &progressReader{from: whole, total: total, progress: u.Progress}, nil
	}
	return decode[Job](c.send(ctx, request{path: "/v1/verify/bulk", contentType: form.FormDataContentType(),
		body: body, size: total}))
}

// sendResumed sends a list by tus 1.0.0, and returns the id of the upload. Attempts are counted from the last that sent
// something.
func (c *Client) sendResumed(ctx context.Context, u Upload, size int64) (string, error) {
	made, err := decode[struct {
		ID string `json:"upload_id"`
	}](c.send(ctx, request{path: "/v1/uploads", body: func() (io.Reader, error) { return strings.NewReader(""), nil },
		header: map[string]string{"Tus-Resumable": "1.0.0", "Upload-Length": strconv.FormatInt(size, 10),
			"Upload-Metadata": "filename " + base64.StdEncoding.EncodeToString([]byte(u.Filename))}}))
	if err != nil {
		return "", err
	}
	path := "/v1/uploads/" + made.ID
	last := int64(0)
	for attempt := 1; ; attempt++ {
		now, err := decode[struct{ Offset int64 }](c.send(ctx, request{path: path,
			header: map[string]string{"Tus-Resumable": "1.0.0"}}))
		if err != nil {
			return "", err
		}
		if now.Offset == size {
			return made.ID, nil
		}
		if now.Offset > last {
			last, attempt = now.Offset, 1
		}
		rest := request{method: http.MethodPatch, path: path, contentType: "application/offset+octet-stream",
			size: size - now.Offset, header: map[string]string{"Tus-Resumable": "1.0.0",
				"Upload-Offset": strconv.FormatInt(now.Offset, 10)},
			body: func() (io.Reader, error) {
				_, err := u.List.Seek(now.Offset, io.SeekStart)
				return &progressReader{from: u.List, sent: now.Offset, total: size, progress: u.Progress}, err
			}}
		answer, err := c.attempt(ctx, rest, "")
		if err == nil {
			_ = answer.Body.Close() // it is empty
			return made.ID, nil
		}
		if err := c.pause(ctx, rest, attempt, err); err != nil {
			return "", err
		}
	}
}

// progressReader tells how much of a body was read.
type progressReader struct {
	from        io.Reader
	sent, total int64
	progress    func(sent, total int64)
}

// Read implements io.Reader.
func (r *progressReader) Read(p []byte) (n int, err error) {
	n, err = r.from.Read(p)
	r.sent += int64(n)
	if n > 0 && r.progress != nil {
		r.progress(r.sent, r.total)
	}
	return n, err
}
