# What docs/authors.md needs to be run, and a reader need not do.

kit_of_this_repository() {
  export KIT="$DOCS/../kit"
}
