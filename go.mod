module kueue-acrequeueafter

go 1.25.0

// The patched folders lie at upstream's paths and only build inside the tree.
ignore (
	./apis
	./build
	./examples
	./keps
	./pkg
	./test
)

require (
	github.com/spf13/cobra v1.10.1
	golang.org/x/mod v0.29.0
	gopkg.in/yaml.v3 v3.0.1
	sigs.k8s.io/kueue v0.14.8
)

require (
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	github.com/spf13/pflag v1.0.10 // indirect
)
