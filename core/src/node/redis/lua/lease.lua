-- Which lease a value is of: our token and its dot, for the label behind them may change; of any other value, all of it.
local function lease(of)
  local token = string.match(of, '^[0-9a-f]+%.')
  return token and #token == 41 and token or of
end
local mine = lease(A[1])
