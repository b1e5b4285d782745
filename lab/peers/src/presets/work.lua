function handle(r)
  local rounds = tonumber((r.args or ''):match('rounds=(%d+)')) or 0
  local state = 1
  for _ = 1, rounds do state = state * 6364136223846793005 + 1 end
  r.content_type = 'text/plain'
  r:puts(string.format('%x\n', state))
  return apache2.OK
end
