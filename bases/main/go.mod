// So that the overlay is no part of the module above: it is for upstream's tree.
module kueue-acrequeueafter/bases/main

go 1.26.0

ignore ./overlay
