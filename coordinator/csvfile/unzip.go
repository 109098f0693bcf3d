package csvfile

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"hash"
	"hash/crc32"
	"io"
	"strings"

	"github.com/klauspost/compress/flate"
)

// The signatures of a zip archive (APPNOTE.TXT 4.3).
var (
	zipLocal      = []byte("PK\x03\x04")
	zipDescriptor = []byte("PK\x07\x08")
)

const (
	zipLocalBytes = 30
	zipEncrypted  = 1 << 0
	zipStreamed   = 1 << 3 // sizes and checksum follow the data
	zipStored     = 0
	zipDeflated   = 8
)

// zipEntry holds the fields of a local header.
type zipEntry struct {
	flags, method uint16
	sum           uint32
	size          uint64
	name          string
}

// zipFile reads the one file of an archive by its local header, without the directory at the archive's end.
type zipFile struct {
	src   *bufio.Reader
	data  io.Reader
	entry zipEntry
	sum   hash.Hash32
}

// openZip finds the one file; it skips directories before it.
func openZip(src *bufio.Reader) (*zipFile, error) {
	for {
		e, err := readLocalHeader(src)
		if err != nil {
			return nil, err
		}
		if strings.HasSuffix(e.name, "/") && e.size == 0 && e.flags&zipStreamed == 0 {
			if head, _ := src.Peek(4); !bytes.Equal(head, zipLocal) {
				return nil, refuse(Unacceptable, 0, "the zip archive holds no file; put one CSV file into it")
			}
			continue
		}
		z := &zipFile{src: src, entry: e, sum: crc32.NewIEEE()}
		switch {
		case e.flags&zipEncrypted != 0:
			return nil, refuse(Unacceptable, 0, "the zip archive is encrypted; send it without a password")
		case e.method == zipDeflated:
			z.data = flate.NewReader(src)
		case e.method == zipStored && e.flags&zipStreamed == 0:
			z.data = io.LimitReader(src, int64(min(e.size, 1<<62)))
		default:
			return nil, refuse(Unacceptable, 0, "the zip archive uses method %d, which cannot be read from a stream; use deflate, or gzip", e.method)
		}
		return z, nil
	}
}

func readLocalHeader(src *bufio.Reader) (zipEntry, error) {
	var h [zipLocalBytes]byte
	if _, err := io.ReadFull(src, h[:]); err != nil {
		return zipEntry{}, packingError(src, "zip", err)
	}
	le := binary.LittleEndian
	rest := make([]byte, int(le.Uint16(h[26:]))+int(le.Uint16(h[28:])))
	if _, err := io.ReadFull(src, rest); err != nil {
		return zipEntry{}, packingError(src, "zip", err)
	}
	nameLen := le.Uint16(h[26:])
	e := zipEntry{flags: le.Uint16(h[6:]), method: le.Uint16(h[8:]), sum: le.Uint32(h[14:]), size: uint64(le.Uint32(h[18:])),
		name: string(rest[:nameLen])}
	if e.size == 1<<32-1 {
		e.size = zip64Size(rest[nameLen:])
	}
	return e, nil
}

// zip64Size is the compressed size in the extra field 0x0001 (APPNOTE.TXT 4.5.3), where it follows the uncompressed one.
func zip64Size(extra []byte) uint64 {
	for len(extra) >= 4 {
		id, n := binary.LittleEndian.Uint16(extra), int(binary.LittleEndian.Uint16(extra[2:]))
		if len(extra) < 4+n {
			break
		}
		if id == 1 && n >= 16 {
			return binary.LittleEndian.Uint64(extra[12:])
		}
		extra = extra[4+n:]
	}
	return 1<<32 - 1
}

func (z *zipFile) Read(p []byte) (int, error) {
	n, err := z.data.Read(p)
	z.sum.Write(p[:n])
	if err == io.EOF {
		if err := z.checkEnd(); err != nil {
			return n, err
		}
	}
	return n, err
}

// checkEnd verifies the file's checksum and that only the directory follows it.
func (z *zipFile) checkEnd() error {
	sum := z.entry.sum
	if z.entry.flags&zipStreamed != 0 { // the checksum follows; signature and sizes of 8 bytes are optional (APPNOTE.TXT 4.3.9)
		if head, _ := z.src.Peek(4); bytes.Equal(head, zipDescriptor) {
			z.src.Discard(4)
		}
		head, _ := z.src.Peek(24)
		if len(head) < 12 {
			return refuse(Unacceptable, 0, errPackedFormat, "zip", io.ErrUnexpectedEOF)
		}
		skip := 12
		if len(head) >= 24 && !bytes.HasPrefix(head[12:], []byte("PK")) && bytes.HasPrefix(head[20:], []byte("PK")) {
			skip = 20
		}
		sum = binary.LittleEndian.Uint32(head)
		z.src.Discard(skip)
	}
	if sum != z.sum.Sum32() {
		return refuse(Unacceptable, 0, errPackedFormat, "zip", errors.New("checksum differs"))
	}
	if head, _ := z.src.Peek(4); bytes.Equal(head, zipLocal) {
		return refuse(Unacceptable, 0, "the zip archive holds more than one file (a spreadsheet is such an archive: export it as CSV); send one")
	}
	_, err := io.Copy(io.Discard, z.src) // read the directory, so that the sender can finish
	return err
}
