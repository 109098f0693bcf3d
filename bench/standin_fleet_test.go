package bench

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
)

// standInCoordinator is a service whose nodes have each written a file next to the certificates.
type standInCoordinator struct {
	standInServe
	Name   string
	Certs  string
	Gossip string `name:"cluster-listen"`
}

func (c *standInCoordinator) run(ctx context.Context) error {
	c.nodes = func(w http.ResponseWriter, _ *http.Request) {
		present, _ := filepath.Glob(c.Certs + "-*")
		nodes := []nodeRecord{}
		for _, name := range present {
			nodes = append(nodes, nodeRecord{Name: filepath.Base(name), Usable: true, Recipients: 100})
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"nodes": nodes})
	}
	return c.standInServe.run(ctx)
}

type standInProber struct {
	Name, Data, Join, Certs string
	Gossip                  string   `name:"cluster-listen"`
	Node                    string   `name:"node-listen"`
	Admin                   string   `name:"admin-listen"`
	DNS                     string   `name:"dns"`
	Port                    int      `name:"smtp-port"`
	Private                 bool     `name:"allow-private-targets"`
	Providers               string   `type:"existingfile"`
	MailFrom                string   `name:"mail-from"`
	Egress                  []string `sep:"none"`
}

func (p *standInProber) run(ctx context.Context) error {
	if err := os.WriteFile(p.Certs+"-"+p.Name, nil, 0o644); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

type standInCerts struct {
	Init struct {
		Dir string
	} `cmd:""`
	Coordinator struct {
		Name string `arg:""`
		Dir  string
	} `cmd:""`
	Node struct {
		Names []string `arg:""`
		Dir   string
	} `cmd:""`
}
