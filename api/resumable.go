package api

import (
	"io"

	"probity/api/httpd"
	"probity/api/tus"
)

// resumable makes the handler of a request for a resumable upload.
func resumable(do func(*tus.Store, *httpd.Call, string) error) func(*call) error {
	return func(c *call) error {
		if c.route.Method != "GET" && c.route.Method != "DELETE" {
			if err := c.srv.checkDiskSpace(); err != nil {
				return err
			}
		}
		return do(c.srv.deps.Uploads, c.Call, c.identity.User.ID)
	}
}

// acceptUpload accepts the file of a resumable upload. All options are known.
func (u *upload) acceptUpload() error {
	file, err := u.call.srv.deps.Uploads.OpenFile(u.call.identity.User.ID, u.form.UploadID)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // it was only read
	if err := u.accept(io.TeeReader(file, u.sum), file.Name); err != nil {
		return err
	}
	return file.Used()
}
