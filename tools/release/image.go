package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

const (
	imageUser     = 65532 // by number: the image has no list of users
	imageData     = "/var/lib/probity"
	imageCerts    = "/etc/probity"
	imageRoots    = "/etc/ssl/certs/ca-certificates.crt"
	imageLicences = "/usr/share/doc/probity"
)

// writeImage writes a container image of a Linux platform, from scratch, which docker load and podman load read. It is
// what deploy/Containerfile builds, made without a daemon.
func (r *release) writeImage(p platform, all []file) error {
	packed, err := r.imageFiles(all)
	if err != nil {
		return err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(packed)), nil
	})
	if err != nil {
		return err
	}
	image, err := mutate.Append(empty.Image, mutate.Addendum{Layer: layer, History: v1.History{
		Created: v1.Time{Time: r.date}, CreatedBy: "tools/release"}})
	if err != nil {
		return err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return err
	}
	image, err = mutate.ConfigFile(image, r.imageConfig(p, config.DeepCopy()))
	if err != nil {
		return err
	}
	tag, err := name.NewTag("probity:" + strings.ReplaceAll(r.version, "+", "-"))
	if err != nil {
		return err
	}
	to := fmt.Sprintf("probity_%s_%s_%s_image.tar", r.version, p.system, p.processor)
	return tarball.WriteToFile(filepath.Join(r.out, to), tag, image)
}

// imageFiles returns the layer: the program, authorities, licences, and the folders that it writes to.
func (r *release) imageFiles(all []file) ([]byte, error) {
	var roots bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue // trusted only for some certificates, which a file cannot say
		}
		if err := pem.Encode(&roots, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			return nil, err
		}
	}
	var entries []entry
	for _, f := range all {
		to := path.Join(imageLicences, f.path)
		switch f.path {
		case "probity":
			to = byHandPath
		case "LICENSE", "NOTICE", "LICENCES.txt":
		default:
			continue
		}
		entries = append(entries, entry{tar.Header{Name: to[1:], Mode: int64(f.mode)}, f.content})
	}
	entries = append(entries, entry{tar.Header{Name: imageRoots[1:], Mode: 0o644}, roots.Bytes()})
	for _, dir := range []struct {
		path string
		mode int64
	}{{imageData, 0o700}, {imageCerts, 0o755}} {
		entries = append(entries, entry{tar.Header{Typeflag: tar.TypeDir, Name: dir.path[1:] + "/", Mode: dir.mode,
			Uid: imageUser, Gid: imageUser}, nil})
	}
	return tarOf(entries, r.date)
}

// imageConfig completes a configuration, which has the layers already, with how the image is run.
func (r *release) imageConfig(p platform, config *v1.ConfigFile) *v1.ConfigFile {
	config.OS, config.Architecture, config.Created = p.system, p.processor, v1.Time{Time: r.date}
	config.Config = v1.Config{
		User:         fmt.Sprintf("%d:%d", imageUser, imageUser),
		Env:          []string{"PROBITY_DATA=" + imageData, "PROBITY_CERTS=" + imageCerts},
		WorkingDir:   imageData,
		Volumes:      map[string]struct{}{imageData: {}},
		ExposedPorts: map[string]struct{}{"8080/tcp": {}, "9090/tcp": {}, "7946/tcp": {}, "7946/udp": {}, "7947/tcp": {}},
		Entrypoint:   []string{byHandPath},
		Cmd:          []string{"serve", "--listen", "0.0.0.0:8080"},
		Healthcheck: &v1.HealthConfig{Test: []string{"CMD", byHandPath, "health"}, Interval: 15 * time.Second,
			Timeout: 6 * time.Second, StartPeriod: 20 * time.Second, Retries: 3},
		Labels: map[string]string{"org.opencontainers.image.title": "Probity",
			"org.opencontainers.image.description": "E-mail address verification",
			"org.opencontainers.image.licenses":    "Apache-2.0", "org.opencontainers.image.version": r.version,
			"org.opencontainers.image.revision": r.commit,
			"org.opencontainers.image.created":  r.date.UTC().Format(time.RFC3339)},
	}
	return config
}
