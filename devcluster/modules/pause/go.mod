module berth.dev/devcluster/pause

go 1.26
