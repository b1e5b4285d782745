def app(environ, start_response):
    start_response('200 OK', [('Content-Type', 'text/plain'), ('Content-Length', '5')])
    return [b'hello']
async def asgi(scope, receive, send):
    if scope['type'] != 'http': return
    await send({'type': 'http.response.start', 'status': 200, 'headers': [(b'content-type', b'text/plain'), (b'content-length', b'5')]})
    await send({'type': 'http.response.body', 'body': b'hello'})
