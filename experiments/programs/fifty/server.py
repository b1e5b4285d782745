# Python: asyncio with a parser of a few lines; port, then NAME=NUMBER.
import asyncio, sys
options = {name: int(value) for name, value in (word.split('=') for word in sys.argv[2:])}
count = 0
async def serve(reader, writer):
    global count
    while True:
        try:
            await reader.readuntil(b'\r\n\r\n')
        except (asyncio.IncompleteReadError, ConnectionError):
            break
        count += 1
        if count == options.get('crash'):
            print('Error: out of cheese', file=sys.stderr)
            sys.stderr.flush()
            import os
            os._exit(3)
        if count >= options.get('hang', 1 << 60):
            await asyncio.sleep(1 << 30)
        total = 0
        for unit in range(options.get('work', 0) * 20):
            total = total * 31 & 0xffff ^ unit
        if 'sleep' in options:
            await asyncio.sleep(options['sleep'] / 1000)
        status = b'500 Broken' if count % 100 < options.get('fail', 0) else b'200 OK'
        writer.write(b'HTTP/1.1 ' + status + b'\r\nContent-Length: 5\r\n\r\nhello')
    writer.close()
async def main():
    server = await asyncio.start_server(serve, '127.0.0.1', int(sys.argv[1]))
    await server.serve_forever()
asyncio.run(main())
