module example.com/extension

go 1.26.0

require github.com/agentbus/agentbus v0.0.0

replace github.com/agentbus/agentbus => ../../..
