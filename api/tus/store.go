package tus

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"strings"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"probity/api/httpd"
	"probity/internal/wholefile"
)

// The bounds of uploads.
const (
	maxUploads = 20             // of an account at one time of which no job was made
	maxUsed    = 1000           // of an account at one time of which jobs were made; the hour's jobs are usually fewer
	lifetime   = 24 * time.Hour // from the last piece
	keptUsed   = time.Hour      // after a job was made of it, so that the request can be repeated
	pieceBytes = 64 << 10       // that are written at once
	commitStep = 16 << 20       // bytes after which what came is made durable
	infoSuffix = ".json"        // of the file about an upload
	maxName    = 1 << 10        // bytes of a file name; it is shortened where it is shown
)

// Config configures a Store. FS and Dir are required.
type Config struct {
	FS       vfs.FS
	Dir      string
	MaxBytes int64            // of one upload; default 9 GiB
	Now      func() time.Time // default time.Now
}

// Store keeps uploads in a folder.
type Store struct {
	cfg Config

	mu   sync.Mutex
	all  map[string]*Upload // guarded by mu
	busy map[string]bool    // uploads that a request writes to or reads; guarded by mu
}

// Upload is an upload as its file has it.
type Upload struct {
	ID       string    `json:"id"`
	Account  string    `json:"account"`
	Filename string    `json:"filename"`
	Length   int64     `json:"length"`
	Offset   int64     `json:"offset"` // bytes that are durable
	Expires  time.Time `json:"expires"`
	Used     bool      `json:"used,omitempty"` // a job was made of it
}

// Open opens the uploads of a folder, and deletes what has expired.
func Open(cfg Config) (*Store, error) {
	cfg.MaxBytes = cmp.Or(cfg.MaxBytes, 9<<30)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	s := &Store{cfg: cfg, all: map[string]*Upload{}, busy: map[string]bool{}}
	if err := cfg.FS.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, err
	}
	if err := wholefile.SyncDir(cfg.FS, cfg.FS.PathDir(cfg.Dir)); err != nil {
		return nil, err
	}
	names, err := cfg.FS.List(cfg.Dir)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		id, isInfo := strings.CutSuffix(name, infoSuffix)
		if !isInfo {
			continue
		}
		u, err := s.load(name)
		if err != nil {
			return nil, fmt.Errorf("upload %s: %w", name, err)
		}
		if u != nil {
			s.all[id] = u
		}
	}
	for _, name := range names { // of what a crash cut off, or a damaged disk lost
		if s.all[strings.TrimSuffix(name, infoSuffix)] == nil {
			if err := cfg.FS.Remove(s.path(name)); err != nil {
				return nil, err
			}
		}
	}
	_, err = s.Sweep(cfg.Now())
	return s, err
}

func (s *Store) path(name string) string { return s.cfg.FS.PathJoin(s.cfg.Dir, name) }

// load reads the file about an upload; nil if it is damaged, as the upload is lost then.
func (s *Store) load(name string) (*Upload, error) {
	f, err := s.cfg.FS.Open(s.path(name))
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	u := new(Upload)
	if err := json.Unmarshal(b, u); err != nil {
		return nil, nil
	}
	return u, nil
}

// save writes the file about an upload.
func (s *Store) save(u Upload) error {
	b, err := json.Marshal(u)
	if err != nil {
		return err
	}
	path := s.path(u.ID + infoSuffix)
	if err := wholefile.Write(s.cfg.FS, path+wholefile.New, b); err != nil {
		return err
	}
	if err := s.cfg.FS.Rename(path+wholefile.New, path); err != nil {
		return err
	}
	return wholefile.SyncDir(s.cfg.FS, s.cfg.Dir)
}

// Sweep deletes the uploads that have expired, and returns how many.
func (s *Store) Sweep(now time.Time) (int, error) {
	s.mu.Lock()
	var expired []string
	for id, u := range s.all {
		if !s.busy[id] && !now.Before(u.Expires) {
			s.busy[id] = true
			expired = append(expired, id)
		}
	}
	s.mu.Unlock()
	removed := 0
	var failed error
	for _, id := range expired {
		err := s.remove(id)
		if err == nil {
			removed++
		}
		failed = errors.Join(failed, err)
	}
	return removed, failed
}

// remove deletes an upload that is reserved. The file about it goes first and durably, so that no crash leaves its
// offset without its bytes; Open deletes bytes without such a file. It writes nothing, as the disk may be full. After
// an error the upload is still there, and can be deleted again.
func (s *Store) remove(id string) error {
	defer s.release(id)
	if err := s.removeFile(id + infoSuffix); err != nil {
		return err
	}
	if err := wholefile.SyncDir(s.cfg.FS, s.cfg.Dir); err != nil {
		return err
	}
	for _, name := range []string{id, id + infoSuffix + wholefile.New} {
		if err := s.removeFile(name); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, id)
	return nil
}

// removeFile deletes a file of the folder, if it is there.
func (s *Store) removeFile(name string) error {
	err := s.cfg.FS.Remove(s.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// create makes an upload.
func (s *Store) create(account, filename string, length int64) (Upload, error) {
	var id [16]byte
	rand.Read(id[:])
	u := Upload{ID: hex.EncodeToString(id[:]), Account: account, Filename: filename, Length: length,
		Expires: s.cfg.Now().Add(lifetime)}
	if !s.addTo(account, &u) {
		r := httpd.Refuse(httpd.TooMany, "This account has %d uploads: make jobs of them, or wait until they expire.",
			maxUploads)
		r.Retry = keptUsed
		return u, r
	}
	err := s.save(u)
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.all, u.ID)
	}
	return u, err
}

// addTo adds an upload to those of an account, unless it has the most that it may.
func (s *Store) addTo(account string, u *Upload) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	unused, used := 0, 0
	for _, other := range s.all {
		switch {
		case other.Account != account:
		case other.Used:
			used++
		default:
			unused++
		}
	}
	if unused >= maxUploads || used >= maxUsed {
		return false
	}
	s.all[u.ID] = u
	return true
}

// find returns an upload of an account that has not expired.
func (s *Store) find(account, id string) (Upload, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.findLocked(account, id)
}

// findLocked is find for a caller that holds mu.
func (s *Store) findLocked(account, id string) (Upload, error) {
	u := s.all[id]
	if u == nil || u.Account != account || !s.cfg.Now().Before(u.Expires) {
		return Upload{}, httpd.Refuse(httpd.NotFound, "There is no such upload in this account, or it has expired: begin a new one.")
	}
	return *u, nil
}

// reserve keeps an upload for one request, until release.
func (s *Store) reserve(account, id string) (Upload, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u, err := s.findLocked(account, id)
	if err != nil {
		return u, err
	}
	if s.busy[id] {
		r := httpd.Refuse(httpd.Conflict, "Another request uses this upload: wait for it, then look at its offset.")
		r.Retry = httpd.RetryLater
		return u, r
	}
	s.busy[id] = true
	return u, nil
}

func (s *Store) release(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.busy, id)
}

// commit makes the offset of an upload durable, after its bytes, and puts its end off unless a job was made of it.
func (s *Store) commit(u *Upload, f vfs.File, offset int64) error {
	if err := f.Sync(); err != nil {
		return err
	}
	u.Offset = offset
	if !u.Used {
		u.Expires = s.cfg.Now().Add(lifetime)
	}
	return s.update(*u)
}

// update replaces what is known of an upload.
func (s *Store) update(u Upload) error {
	if err := s.save(u); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all[u.ID] = &u
	return nil
}

// checksum is what a piece must have; nil for none.
type checksum struct {
	hash hash.Hash
	want []byte
}

// write appends a piece to an upload that is reserved.
func (s *Store) write(u *Upload, piece io.Reader, sum *checksum) (err error) {
	f, err := s.cfg.FS.OpenReadWrite(s.path(u.ID), vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	buf := make([]byte, pieceBytes)
	end, ended := u.Offset, error(nil)
	for ended == nil {
		var n int
		n, ended = io.ReadFull(piece, buf)
		if end+int64(n) > u.Length {
			n, ended = 0, httpd.Refuse(httpd.TooLarge, "The piece goes beyond the length of the upload: send less.")
		}
		if sum != nil {
			_, _ = sum.hash.Write(buf[:n]) // a hash does not fail
		}
		if _, err := f.WriteAt(buf[:n], end); err != nil {
			return err
		}
		end += int64(n)
		if sum == nil && end-u.Offset >= commitStep {
			if err := s.commit(u, f, end); err != nil {
				return err
			}
		}
	}
	if ended == io.EOF || ended == io.ErrUnexpectedEOF { // of ReadFull; a body that breaks off is a refusal
		ended = nil
	}
	switch {
	case sum == nil: // what came counts
	case ended != nil:
		return ended
	case string(sum.hash.Sum(nil)) != string(sum.want):
		return httpd.Refuse(httpd.ChecksumMismatch, "The piece does not have its Upload-Checksum: send it again.")
	}
	return errors.Join(ended, s.commit(u, f, end))
}

// File is the file of a complete upload, of which a job is made.
type File struct {
	vfs.File
	Name string

	store *Store
	of    Upload
}

// OpenFile opens the file of a complete upload of an account. id may be the URL of the upload.
func (s *Store) OpenFile(account, id string) (*File, error) {
	if s == nil {
		return nil, errNone
	}
	id = id[strings.LastIndexByte(id, '/')+1:]
	u, err := s.reserve(account, id)
	if err != nil {
		return nil, err
	}
	if u.Offset < u.Length {
		s.release(id)
		return nil, httpd.Refuse(httpd.Unacceptable, "The upload has %d of %d bytes: send the rest first.", u.Offset, u.Length)
	}
	f, err := s.cfg.FS.Open(s.path(id))
	if err != nil {
		s.release(id)
		return nil, err
	}
	return &File{File: f, Name: u.Filename, store: s, of: u}, nil
}

// Used says that a job was made of the upload, which then expires soon, and does not count among those of its account.
func (f *File) Used() error {
	f.of.Used = true
	f.of.Expires = f.store.cfg.Now().Add(keptUsed)
	return f.store.update(f.of)
}

// Close closes the file.
func (f *File) Close() error {
	f.store.release(f.of.ID)
	return f.File.Close()
}
