# Sourced: enough_node tells whether this machine has a Node that builds the dashboard, and why not.
enough_node() {
	if ! command -v npm >/dev/null 2>&1 || ! command -v node >/dev/null 2>&1; then
		why="there is no Node with npm on this machine"
		return 1
	fi
	if ! node -e 'const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 22 || (a === 22 && b >= 12) || (a === 20 && b >= 19) ? 0 : 1)'; then
		why="the Node on this machine is $(node --version)"
		return 1
	fi
}

# packages installs what package-lock.json names, once.
packages() {
	if [ -e node_modules/.package-lock.json ] && [ ! package-lock.json -nt node_modules/.package-lock.json ]; then
		return 0
	fi
	echo "web: fetching the packages of the dashboard with npm; this can take a minute" >&2
	log=$(mktemp)
	npm ci --no-progress --loglevel error >"$log" 2>&1 && rm "$log" && touch node_modules/.package-lock.json && return 0
	echo "web: the last lines of npm:" >&2
	tail -n 10 "$log" >&2
	rm "$log"
	why="npm could not fetch its packages"
	return 1
}
