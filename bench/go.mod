module kueue-acrequeueafter/bench

go 1.25.0
