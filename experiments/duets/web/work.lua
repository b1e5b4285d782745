-- `/work?rounds=N` runs N rounds of the loop that our `/work` repeats until its time is up (Knuth's
-- multiplicative congruential generator); `/work?ms=N` as many as take N ms by {dir}/rounds, the
-- calibrated rounds in a millisecond.
function handle(r)
  local args = r.args or ''
  local rounds = tonumber(args:match('rounds=(%d+)'))
  if not rounds then
    local file = io.open('{dir}/rounds')
    rounds = tonumber(args:match('ms=(%d+)')) * file:read('n')
    file:close()
  end
  local state = 1
  for _ = 1, rounds do state = state * 6364136223846793005 + 1 end
  r.content_type = 'text/plain'
  r:puts(string.format('%x\n', state))
  return apache2.OK
end
