package api

import "probity/coordinator/fleet"

// getCluster serves the nodes of the cluster, their identities and how they fare, as probity cluster shows them. A server
// that was not told of a cluster has no nodes.
func (x *exchange) getCluster() error {
	if tell := x.srv.rooms.Operator.Cluster; tell != nil {
		return x.sendAs(statusOK, tell())
	}
	return x.sendAs(statusOK, fleet.ClusterReport{Nodes: []fleet.NodeReport{}})
}
