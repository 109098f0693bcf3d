package client

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"mime/multipart"
)

// Upload is a list to verify.
type Upload struct {
	Filename string
	List     io.ReadSeeker // CSV, plain or compressed
	// Parts are other parts of the form, such as "callback_url" or "details"; docs/api.md lists them.
	Parts    map[string]string
	Progress func(sent, total int64) // bytes; may be nil
}

// Upload uploads a list, and returns its job. The list is not held in memory.
func (c *Client) Upload(ctx context.Context, u Upload) (*Job, error) {
	size, err := u.List.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, fmt.Errorf("size of the list: %w", err)
	}
	var frame bytes.Buffer // of the form: what is around the list
	form := multipart.NewWriter(&frame)
	for name, value := range u.Parts {
		if err := form.WriteField(name, value); err != nil {
			return nil, err
		}
	}
	if _, err := form.CreateFormFile("file", u.Filename); err != nil {
		return nil, err
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
