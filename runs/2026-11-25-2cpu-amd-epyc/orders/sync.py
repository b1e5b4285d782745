import os,time,sys
f=os.open('/tmp/orders/raw',os.O_RDWR|os.O_CREAT); n=64<<20
os.pwrite(f,b'\0'*n,0); os.fsync(f)
t=time.time(); k=0
size=int(sys.argv[1])
while time.time()-t<3: os.pwrite(f,b'x'*size,(k*size)%(n-size)); os.fdatasync(f); k+=1
print(f'fdatasync of {size} B: {k/(time.time()-t):.0f}/s')
